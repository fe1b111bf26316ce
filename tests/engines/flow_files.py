"""Whole .flow files in hexadecimal, written down from the format's tables, byte by byte."""

from __future__ import annotations

EMPTY_3 = """
66 6c 6f 77                                     # magic
03 00 00 00                                     # version 3
00 00 00 00                                     # 0 variables
00 00 00 00                                     # 0 operations
00 00 00 00                                     # 0 functions
00 00 00 00                                     # 0 connectors
"""

EMPTY_6 = """
66 6c 6f 77                                     # magic
06 00 00 00                                     # version 6
00 00 00 00                                     # flags of the file
00 00 00 00                                     # 0 variables
00 00 00 00                                     # 0 operations
00 00 00 00                                     # 0 functions
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

CLASSIFIER_3 = """
66 6c 6f 77                                     # magic
03 00 00 00                                     # version 3
05 00 00 00                                     # 5 variables
03 00 00 00 78 3a 30                            # variable 'x:0'
01 00 00 00                                     # 1 aliases
01 00 00 00 78                                  # alias 'x'
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
03 00 00 00                                     # size 3
00 00 00 00 00 00 00 00                         # 0 bytes of data
01 00 00 00 57                                  # variable 'W'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
03 00 00 00                                     # size 3
02 00 00 00                                     # size 2
18 00 00 00 00 00 00 00                         # 24 bytes of data
00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40 # data
00 00 a0 40 00 00 c0 40                         # data
01 00 00 00 62                                  # variable 'b'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
08 00 00 00 00 00 00 00                         # 8 bytes of data
00 00 00 3f 00 00 00 bf                         # data
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # variable 'MatMul:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00 79 3a 30                            # variable 'y:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00                                     # 2 operations
06 00 00 00 4d 61 74 4d 75 6c                   # operation 'MatMul'
06 00 00 00 4d 61 74 4d 75 6c                   # type 'MatMul'
02 00 00 00                                     # 2 inputs
03 00 00 00 78 3a 30                            # input 'x:0'
01 00 00 00 57                                  # input 'W'
01 00 00 00                                     # 1 outputs
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # output 'MatMul:0'
02 00 00 00                                     # 2 attributes
0b 00 00 00 74 72 61 6e 73 70 6f 73 65 5f 61    # attribute 'transpose_a'
05 00 00 00 66 61 6c 73 65                      # value 'false'
0b 00 00 00 74 72 61 6e 73 70 6f 73 65 5f 62    # attribute 'transpose_b'
05 00 00 00 66 61 6c 73 65                      # value 'false'
01 00 00 00 79                                  # operation 'y'
03 00 00 00 41 64 64                            # type 'Add'
02 00 00 00                                     # 2 inputs
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # input 'MatMul:0'
01 00 00 00 62                                  # input 'b'
01 00 00 00                                     # 1 outputs
03 00 00 00 79 3a 30                            # output 'y:0'
00 00 00 00                                     # 0 attributes
01 00 00 00                                     # 1 functions
0a 00 00 00 63 6c 61 73 73 69 66 69 65 72       # function 'classifier'
02 00 00 00                                     # 2 operations
06 00 00 00 4d 61 74 4d 75 6c                   # operation 'MatMul'
01 00 00 00 79                                  # operation 'y'
00 00 00 00                                     # 0 connectors
"""

CLASSIFIER_5 = """
66 6c 6f 77                                     # magic
05 00 00 00                                     # version 5
00 00 00 00                                     # flags of the file
05 00 00 00                                     # 5 variables
01 00 00 00                                     # flags
03 00 00 00 78 3a 30                            # variable 'x:0'
01 00 00 00                                     # 1 aliases
01 00 00 00 78                                  # alias 'x'
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
03 00 00 00                                     # size 3
00 00 00 00 00 00 00 00                         # 0 bytes of data
08 00 00 00                                     # flags
01 00 00 00 57                                  # variable 'W'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
03 00 00 00                                     # size 3
02 00 00 00                                     # size 2
18 00 00 00 00 00 00 00                         # 24 bytes of data
00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40 # data
00 00 a0 40 00 00 c0 40                         # data
08 00 00 00                                     # flags
01 00 00 00 62                                  # variable 'b'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
08 00 00 00 00 00 00 00                         # 8 bytes of data
00 00 00 3f 00 00 00 bf                         # data
00 00 00 00                                     # flags
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # variable 'MatMul:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00                                     # flags
03 00 00 00 79 3a 30                            # variable 'y:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00                                     # 2 operations
00 00 00 00                                     # flags
06 00 00 00 4d 61 74 4d 75 6c                   # operation 'MatMul'
06 00 00 00 4d 61 74 4d 75 6c                   # type 'MatMul'
02 00 00 00                                     # 2 inputs
03 00 00 00 78 3a 30                            # input 'x:0'
01 00 00 00 57                                  # input 'W'
01 00 00 00                                     # 1 outputs
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # output 'MatMul:0'
02 00 00 00                                     # 2 attributes
0b 00 00 00 74 72 61 6e 73 70 6f 73 65 5f 61    # attribute 'transpose_a'
05 00 00 00 66 61 6c 73 65                      # value 'false'
0b 00 00 00 74 72 61 6e 73 70 6f 73 65 5f 62    # attribute 'transpose_b'
05 00 00 00 66 61 6c 73 65                      # value 'false'
00 00 00 00                                     # flags
01 00 00 00 79                                  # operation 'y'
03 00 00 00 41 64 64                            # type 'Add'
02 00 00 00                                     # 2 inputs
08 00 00 00 4d 61 74 4d 75 6c 3a 30             # input 'MatMul:0'
01 00 00 00 62                                  # input 'b'
01 00 00 00                                     # 1 outputs
03 00 00 00 79 3a 30                            # output 'y:0'
00 00 00 00                                     # 0 attributes
01 00 00 00                                     # 1 functions
00 00 00 00                                     # flags
0a 00 00 00 63 6c 61 73 73 69 66 69 65 72       # function 'classifier'
02 00 00 00                                     # 2 operations
06 00 00 00 4d 61 74 4d 75 6c                   # operation 'MatMul'
01 00 00 00 79                                  # operation 'y'
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

REFERENCES_3 = """
66 6c 6f 77                                     # magic
03 00 00 00                                     # version 3
03 00 00 00                                     # 3 variables
04 00 00 00 68 5f 69 6e                         # variable 'h_in'
00 00 00 00                                     # 0 aliases
08 00 00 00 26 66 6c 6f 61 74 33 32             # type '&float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
05 00 00 00 68 5f 6f 75 74                      # variable 'h_out'
00 00 00 00                                     # 0 aliases
08 00 00 00 26 66 6c 6f 61 74 33 32             # type '&float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00 6f 6e 65                            # variable 'one'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
01 00 00 00                                     # size 1
04 00 00 00 00 00 00 00                         # 4 bytes of data
00 00 80 3f                                     # data
01 00 00 00                                     # 1 operations
04 00 00 00 73 74 65 70                         # operation 'step'
03 00 00 00 41 64 64                            # type 'Add'
02 00 00 00                                     # 2 inputs
04 00 00 00 68 5f 69 6e                         # input 'h_in'
03 00 00 00 6f 6e 65                            # input 'one'
01 00 00 00                                     # 1 outputs
05 00 00 00 68 5f 6f 75 74                      # output 'h_out'
00 00 00 00                                     # 0 attributes
01 00 00 00                                     # 1 functions
04 00 00 00 63 65 6c 6c                         # function 'cell'
01 00 00 00                                     # 1 operations
04 00 00 00 73 74 65 70                         # operation 'step'
01 00 00 00                                     # 1 connectors
06 00 00 00 68 69 64 64 65 6e                   # connector 'hidden'
02 00 00 00                                     # 2 links
04 00 00 00 68 5f 69 6e                         # link 'h_in'
05 00 00 00 68 5f 6f 75 74                      # link 'h_out'
"""

BLOBS_4 = """
66 6c 6f 77                                     # magic
04 00 00 00                                     # version 4
00 00 00 00                                     # 0 variables
00 00 00 00                                     # 0 operations
00 00 00 00                                     # 0 functions
00 00 00 00                                     # 0 connectors
02 00 00 00                                     # 2 blobs
07 00 00 00 6c 65 78 69 63 6f 6e                # blob 'lexicon'
04 00 00 00 64 69 63 74                         # type 'dict'
02 00 00 00                                     # 2 attributes
09 00 00 00 64 65 6c 69 6d 69 74 65 72          # attribute 'delimiter'
02 00 00 00 31 30                               # value '10'
03 00 00 00 6f 6f 76                            # attribute 'oov'
01 00 00 00 30                                  # value '0'
0b 00 00 00 00 00 00 00                         # 11 bytes of data
74 68 65 0a 6f 66 0a 61 6e 64 0a                # data
04 00 00 00 73 70 65 63                         # blob 'spec'
00 00 00 00                                     # type ''
00 00 00 00                                     # 0 attributes
00 00 00 00 00 00 00 00                         # 0 bytes of data
"""

TENSORFLOW_4 = """
66 6c 6f 77                                     # magic
04 00 00 00                                     # version 4
04 00 00 00                                     # 4 variables
03 00 00 00 57 3a 30                            # variable 'W:0'
02 00 00 00                                     # 2 aliases
08 00 00 00 57 2f 72 65 61 64 3a 30             # alias 'W/read:0'
01 00 00 00 57                                  # alias 'W'
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
08 00 00 00 00 00 00 00                         # 8 bytes of data
00 00 40 40 00 00 80 40                         # data
03 00 00 00 78 3a 30                            # variable 'x:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
00 00 00 00                                     # size 0
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00 79 3a 30                            # variable 'y:0'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
00 00 00 00                                     # size 0
00 00 00 00                                     # size 0
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00 70 3a 30                            # variable 'p:0'
00 00 00 00                                     # 0 aliases
05 00 00 00 69 6e 74 33 32                      # type 'int32'
02 00 00 00                                     # rank 2
00 00 00 00                                     # size 0
00 00 00 00                                     # size 0
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00                                     # 3 operations
01 00 00 00 57                                  # operation 'W'
0a 00 00 00 56 61 72 69 61 62 6c 65 56 32       # type 'VariableV2'
00 00 00 00                                     # 0 inputs
01 00 00 00                                     # 1 outputs
03 00 00 00 57 3a 30                            # output 'W:0'
02 00 00 00                                     # 2 attributes
05 00 00 00 64 74 79 70 65                      # attribute 'dtype'
07 00 00 00 66 6c 6f 61 74 33 32                # value 'float32'
05 00 00 00 73 68 61 70 65                      # attribute 'shape'
01 00 00 00 32                                  # value '2'
01 00 00 00 70                                  # operation 'p'
0b 00 00 00 50 6c 61 63 65 68 6f 6c 64 65 72    # type 'Placeholder'
00 00 00 00                                     # 0 inputs
01 00 00 00                                     # 1 outputs
03 00 00 00 70 3a 30                            # output 'p:0'
01 00 00 00                                     # 1 attributes
05 00 00 00 73 68 61 70 65                      # attribute 'shape'
00 00 00 00                                     # value ''
01 00 00 00 79                                  # operation 'y'
03 00 00 00 4d 75 6c                            # type 'Mul'
02 00 00 00                                     # 2 inputs
03 00 00 00 78 3a 30                            # input 'x:0'
08 00 00 00 57 2f 72 65 61 64 3a 30             # input 'W/read:0'
01 00 00 00                                     # 1 outputs
03 00 00 00 79 3a 30                            # output 'y:0'
00 00 00 00                                     # 0 attributes
01 00 00 00                                     # 1 functions
05 00 00 00 73 63 61 6c 65                      # function 'scale'
02 00 00 00                                     # 2 operations
01 00 00 00 57                                  # operation 'W'
01 00 00 00 79                                  # operation 'y'
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

UNORDERED_4 = """
66 6c 6f 77                                     # magic
04 00 00 00                                     # version 4
05 00 00 00                                     # 5 variables
01 00 00 00 77                                  # variable 'w'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
02 00 00 00                                     # size 2
02 00 00 00                                     # size 2
10 00 00 00 00 00 00 00                         # 16 bytes of data
00 00 80 3f 00 00 00 00 00 00 00 00 00 00 80 3f # data
01 00 00 00 61                                  # variable 'a'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00 61 32                               # variable 'a2'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00 61 33                               # variable 'a3'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
02 00 00 00 62 32                               # variable 'b2'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
03 00 00 00                                     # 3 operations
04 00 00 00 6c 61 73 74                         # operation 'last'
04 00 00 00 52 65 6c 75                         # type 'Relu'
01 00 00 00                                     # 1 inputs
02 00 00 00 61 32                               # input 'a2'
01 00 00 00                                     # 1 outputs
02 00 00 00 61 33                               # output 'a3'
00 00 00 00                                     # 0 attributes
05 00 00 00 66 69 72 73 74                      # operation 'first'
06 00 00 00 4d 61 74 4d 75 6c                   # type 'MatMul'
02 00 00 00                                     # 2 inputs
01 00 00 00 61                                  # input 'a'
01 00 00 00 77                                  # input 'w'
01 00 00 00                                     # 1 outputs
02 00 00 00 61 32                               # output 'a2'
00 00 00 00                                     # 0 attributes
05 00 00 00 6f 74 68 65 72                      # operation 'other'
06 00 00 00 4d 61 74 4d 75 6c                   # type 'MatMul'
02 00 00 00                                     # 2 inputs
01 00 00 00 61                                  # input 'a'
01 00 00 00 77                                  # input 'w'
01 00 00 00                                     # 1 outputs
02 00 00 00 62 32                               # output 'b2'
00 00 00 00                                     # 0 attributes
02 00 00 00                                     # 2 functions
03 00 00 00 6f 6e 65                            # function 'one'
02 00 00 00                                     # 2 operations
04 00 00 00 6c 61 73 74                         # operation 'last'
05 00 00 00 66 69 72 73 74                      # operation 'first'
03 00 00 00 74 77 6f                            # function 'two'
01 00 00 00                                     # 1 operations
05 00 00 00 6f 74 68 65 72                      # operation 'other'
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

FLAGS_5 = """
66 6c 6f 77                                     # magic
05 00 00 00                                     # version 5
07 00 00 00                                     # flags of the file
04 00 00 00                                     # 4 variables
04 00 00 00                                     # flags
01 00 00 00 72                                  # variable 'r'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
04 00 00 00                                     # size 4
00 00 00 00 00 00 00 00                         # 0 bytes of data
00 00 00 00                                     # flags
01 00 00 00 73                                  # variable 's'
00 00 00 00                                     # 0 aliases
08 00 00 00 26 66 6c 6f 61 74 33 32             # type '&float32'
01 00 00 00                                     # rank 1
04 00 00 00                                     # size 4
00 00 00 00 00 00 00 00                         # 0 bytes of data
58 01 00 00                                     # flags
01 00 00 00 74                                  # variable 't'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
04 00 00 00                                     # size 4
00 00 00 00 00 00 00 00                         # 0 bytes of data
a2 02 00 00                                     # flags
01 00 00 00 75                                  # variable 'u'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
01 00 00 00                                     # rank 1
04 00 00 00                                     # size 4
00 00 00 00 00 00 00 00                         # 0 bytes of data
01 00 00 00                                     # 1 operations
01 00 00 00                                     # flags
01 00 00 00 6f                                  # operation 'o'
03 00 00 00 53 75 6d                            # type 'Sum'
01 00 00 00                                     # 1 inputs
01 00 00 00 72                                  # input 'r'
01 00 00 00                                     # 1 outputs
01 00 00 00 75                                  # output 'u'
02 00 00 00                                     # 2 attributes
04 00 00 00 61 78 69 73                         # attribute 'axis'
02 00 00 00 2d 31                               # value '-1'
08 00 00 00 6b 65 65 70 64 69 6d 73             # attribute 'keepdims'
01 00 00 00 31                                  # value '1'
01 00 00 00                                     # 1 functions
03 00 00 00                                     # flags
01 00 00 00 66                                  # function 'f'
01 00 00 00                                     # 1 operations
01 00 00 00 6f                                  # operation 'o'
01 00 00 00                                     # 1 connectors
09 00 00 00                                     # flags
01 00 00 00 63                                  # connector 'c'
02 00 00 00                                     # 2 links
01 00 00 00 72                                  # link 'r'
01 00 00 00 75                                  # link 'u'
01 00 00 00                                     # 1 blobs
05 00 00 00                                     # flags
01 00 00 00 7a                                  # blob 'z'
05 00 00 00 62 79 74 65 73                      # type 'bytes'
00 00 00 00                                     # 0 attributes
03 00 00 00 00 00 00 00                         # 3 bytes of data
00 01 02                                        # data
"""

ATTRIBUTES_6 = """
66 6c 6f 77                                     # magic
06 00 00 00                                     # version 6
00 00 00 00                                     # flags of the file
02 00 00 00                                     # 2 variables
00 00 00 00                                     # flags
01 00 00 00 78                                  # variable 'x'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
04 00 00 00                                     # size 4
02 00 00 00                                     # 2 attributes
03 00 00 00 64 6f 63                            # attribute 'doc'
06 00 00 00 70 69 78 65 6c 73                   # value 'pixels'
05 00 00 00 73 63 61 6c 65                      # attribute 'scale'
08 00 00 00 30 2e 35 30 30 30 30 30             # value '0.500000'
00 00 00 00 00 00 00 00                         # 0 bytes of data
00 00 00 00                                     # flags
02 00 00 00 c3 a9                               # variable 'é'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
04 00 00 00                                     # size 4
01 00 00 00                                     # 1 attributes
00 00 00 00                                     # attribute ''
00 00 00 00                                     # value ''
00 00 00 00 00 00 00 00                         # 0 bytes of data
01 00 00 00                                     # 1 operations
00 00 00 00                                     # flags
02 00 00 00 c3 bc                               # operation 'ü'
04 00 00 00 53 71 72 74                         # type 'Sqrt'
01 00 00 00                                     # 1 inputs
01 00 00 00 78                                  # input 'x'
01 00 00 00                                     # 1 outputs
02 00 00 00 c3 a9                               # output 'é'
00 00 00 00                                     # 0 attributes
01 00 00 00                                     # 1 functions
00 00 00 00                                     # flags
01 00 00 00 66                                  # function 'f'
01 00 00 00                                     # 1 operations
02 00 00 00 c3 bc                               # operation 'ü'
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

TYPES_6 = """
66 6c 6f 77                                     # magic
06 00 00 00                                     # version 6
00 00 00 00                                     # flags of the file
15 00 00 00                                     # 21 variables
00 00 00 00                                     # flags
07 00 00 00 66 6c 6f 61 74 31 36                # variable 'float16'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 31 36                # type 'float16'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
00 3c 00 c0                                     # data
00 00 00 00                                     # flags
04 00 00 00 68 61 6c 66                         # variable 'half'
00 00 00 00                                     # 0 aliases
04 00 00 00 68 61 6c 66                         # type 'half'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
00 38 00 00                                     # data
00 00 00 00                                     # flags
08 00 00 00 62 66 6c 6f 61 74 31 36             # variable 'bfloat16'
00 00 00 00                                     # 0 aliases
08 00 00 00 62 66 6c 6f 61 74 31 36             # type 'bfloat16'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
80 3f 00 c0                                     # data
00 00 00 00                                     # flags
05 00 00 00 66 6c 6f 61 74                      # variable 'float'
00 00 00 00                                     # 0 aliases
05 00 00 00 66 6c 6f 61 74                      # type 'float'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
08 00 00 00 00 00 00 00                         # 8 bytes of data
00 00 80 3f 00 00 00 40                         # data
00 00 00 00                                     # flags
07 00 00 00 66 6c 6f 61 74 36 34                # variable 'float64'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 36 34                # type 'float64'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
10 00 00 00 00 00 00 00                         # 16 bytes of data
00 00 00 00 00 00 f0 3f 00 00 00 00 00 00 00 40 # data
00 00 00 00                                     # flags
06 00 00 00 64 6f 75 62 6c 65                   # variable 'double'
00 00 00 00                                     # 0 aliases
06 00 00 00 64 6f 75 62 6c 65                   # type 'double'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
10 00 00 00 00 00 00 00                         # 16 bytes of data
00 00 00 00 00 00 08 40 00 00 00 00 00 00 10 40 # data
00 00 00 00                                     # flags
04 00 00 00 69 6e 74 38                         # variable 'int8'
00 00 00 00                                     # 0 aliases
04 00 00 00 69 6e 74 38                         # type 'int8'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
02 00 00 00 00 00 00 00                         # 2 bytes of data
ff 01                                           # data
00 00 00 00                                     # flags
05 00 00 00 75 69 6e 74 38                      # variable 'uint8'
00 00 00 00                                     # 0 aliases
05 00 00 00 75 69 6e 74 38                      # type 'uint8'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
02 00 00 00 00 00 00 00                         # 2 bytes of data
ff 01                                           # data
00 00 00 00                                     # flags
05 00 00 00 69 6e 74 31 36                      # variable 'int16'
00 00 00 00                                     # 0 aliases
05 00 00 00 69 6e 74 31 36                      # type 'int16'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
ff ff 01 00                                     # data
00 00 00 00                                     # flags
06 00 00 00 75 69 6e 74 31 36                   # variable 'uint16'
00 00 00 00                                     # 0 aliases
06 00 00 00 75 69 6e 74 31 36                   # type 'uint16'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
ff ff 01 00                                     # data
00 00 00 00                                     # flags
05 00 00 00 69 6e 74 33 32                      # variable 'int32'
00 00 00 00                                     # 0 aliases
05 00 00 00 69 6e 74 33 32                      # type 'int32'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
08 00 00 00 00 00 00 00                         # 8 bytes of data
ff ff ff ff 01 00 00 00                         # data
00 00 00 00                                     # flags
03 00 00 00 69 6e 74                            # variable 'int'
00 00 00 00                                     # 0 aliases
03 00 00 00 69 6e 74                            # type 'int'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
08 00 00 00 00 00 00 00                         # 8 bytes of data
02 00 00 00 03 00 00 00                         # data
00 00 00 00                                     # flags
06 00 00 00 75 69 6e 74 33 32                   # variable 'uint32'
00 00 00 00                                     # 0 aliases
06 00 00 00 75 69 6e 74 33 32                   # type 'uint32'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
08 00 00 00 00 00 00 00                         # 8 bytes of data
ff ff ff ff 01 00 00 00                         # data
00 00 00 00                                     # flags
05 00 00 00 69 6e 74 36 34                      # variable 'int64'
00 00 00 00                                     # 0 aliases
05 00 00 00 69 6e 74 36 34                      # type 'int64'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
10 00 00 00 00 00 00 00                         # 16 bytes of data
ff ff ff ff ff ff ff ff 01 00 00 00 00 00 00 00 # data
00 00 00 00                                     # flags
06 00 00 00 75 69 6e 74 36 34                   # variable 'uint64'
00 00 00 00                                     # 0 aliases
06 00 00 00 75 69 6e 74 36 34                   # type 'uint64'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
10 00 00 00 00 00 00 00                         # 16 bytes of data
ff ff ff ff ff ff ff ff 01 00 00 00 00 00 00 00 # data
00 00 00 00                                     # flags
04 00 00 00 62 6f 6f 6c                         # variable 'bool'
00 00 00 00                                     # 0 aliases
04 00 00 00 62 6f 6f 6c                         # type 'bool'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
02 00 00 00 00 00 00 00                         # 2 bytes of data
01 00                                           # data
00 00 00 00                                     # flags
09 00 00 00 63 6f 6d 70 6c 65 78 36 34          # variable 'complex64'
00 00 00 00                                     # 0 aliases
09 00 00 00 63 6f 6d 70 6c 65 78 36 34          # type 'complex64'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
10 00 00 00 00 00 00 00                         # 16 bytes of data
00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40 # data
00 00 00 00                                     # flags
05 00 00 00 71 69 6e 74 38                      # variable 'qint8'
00 00 00 00                                     # 0 aliases
05 00 00 00 71 69 6e 74 38                      # type 'qint8'
01 00 00 00                                     # rank 1
02 00 00 00                                     # size 2
00 00 00 00                                     # 0 attributes
02 00 00 00 00 00 00 00                         # 2 bytes of data
80 7f                                           # data
00 00 00 00                                     # flags
04 00 00 00 74 65 78 74                         # variable 'text'
00 00 00 00                                     # 0 aliases
06 00 00 00 73 74 72 69 6e 67                   # type 'string'
01 00 00 00                                     # rank 1
01 00 00 00                                     # size 1
00 00 00 00                                     # 0 attributes
05 00 00 00 00 00 00 00                         # 5 bytes of data
68 65 6c 6c 6f                                  # data
00 00 00 00                                     # flags
07 00 00 00 6e 6f 74 68 69 6e 67                # variable 'nothing'
00 00 00 00                                     # 0 aliases
04 00 00 00 76 6f 69 64                         # type 'void'
00 00 00 00                                     # rank 0
00 00 00 00                                     # 0 attributes
00 00 00 00 00 00 00 00                         # 0 bytes of data
00 00 00 00                                     # flags
07 00 00 00 75 6e 74 79 70 65 64                # variable 'untyped'
00 00 00 00                                     # 0 aliases
00 00 00 00                                     # type ''
00 00 00 00                                     # rank 0
00 00 00 00                                     # 0 attributes
00 00 00 00 00 00 00 00                         # 0 bytes of data
00 00 00 00                                     # 0 operations
00 00 00 00                                     # 0 functions
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

SCALARS_6 = """
66 6c 6f 77                                     # magic
06 00 00 00                                     # version 6
00 00 00 00                                     # flags of the file
03 00 00 00                                     # 3 variables
00 00 00 00                                     # flags
04 00 00 00 68 61 6c 66                         # variable 'half'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
00 00 00 00                                     # rank 0
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
00 00 00 3f                                     # data
00 00 00 00                                     # flags
05 00 00 00 63 6f 75 6e 74                      # variable 'count'
01 00 00 00                                     # 1 aliases
01 00 00 00 6e                                  # alias 'n'
05 00 00 00 69 6e 74 33 32                      # type 'int32'
00 00 00 00                                     # rank 0
00 00 00 00                                     # 0 attributes
04 00 00 00 00 00 00 00                         # 4 bytes of data
03 00 00 00                                     # data
02 00 00 00                                     # flags
03 00 00 00 6f 75 74                            # variable 'out'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
00 00 00 00                                     # rank 0
00 00 00 00                                     # 0 attributes
00 00 00 00 00 00 00 00                         # 0 bytes of data
01 00 00 00                                     # 1 operations
00 00 00 00                                     # flags
01 00 00 00 6d                                  # operation 'm'
09 00 00 00 43 61 6c 63 75 6c 61 74 65          # type 'Calculate'
02 00 00 00                                     # 2 inputs
04 00 00 00 68 61 6c 66                         # input 'half'
01 00 00 00 6e                                  # input 'n'
01 00 00 00                                     # 1 outputs
03 00 00 00 6f 75 74                            # output 'out'
01 00 00 00                                     # 1 attributes
04 00 00 00 65 78 70 72                         # attribute 'expr'
0d 00 00 00 40 30 3d 4d 75 6c 28 25 30 2c 25 31 29# value '@0=Mul(%0,%1)'
01 00 00 00                                     # 1 functions
00 00 00 00                                     # flags
01 00 00 00 66                                  # function 'f'
01 00 00 00                                     # 1 operations
01 00 00 00 6d                                  # operation 'm'
00 00 00 00                                     # 0 connectors
00 00 00 00                                     # 0 blobs
"""

RECURRENT_5 = """
66 6c 6f 77                                     # magic
05 00 00 00                                     # version 5
00 00 00 00                                     # flags of the file
03 00 00 00                                     # 3 variables
25 00 00 00                                     # flags
05 00 00 00 73 74 65 70 73                      # variable 'steps'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
ff ff ff ff                                     # size -1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
05 00 00 00                                     # flags
01 00 00 00 68                                  # variable 'h'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
06 00 00 00                                     # flags
02 00 00 00 68 32                               # variable 'h2'
00 00 00 00                                     # 0 aliases
07 00 00 00 66 6c 6f 61 74 33 32                # type 'float32'
02 00 00 00                                     # rank 2
01 00 00 00                                     # size 1
02 00 00 00                                     # size 2
00 00 00 00 00 00 00 00                         # 0 bytes of data
01 00 00 00                                     # 1 operations
00 00 00 00                                     # flags
04 00 00 00 6e 65 78 74                         # operation 'next'
04 00 00 00 54 61 6e 68                         # type 'Tanh'
01 00 00 00                                     # 1 inputs
01 00 00 00 68                                  # input 'h'
01 00 00 00                                     # 1 outputs
02 00 00 00 68 32                               # output 'h2'
01 00 00 00                                     # 1 attributes
04 00 00 00 74 61 73 6b                         # attribute 'task'
01 00 00 00 31                                  # value '1'
01 00 00 00                                     # 1 functions
02 00 00 00                                     # flags
03 00 00 00 72 6e 6e                            # function 'rnn'
01 00 00 00                                     # 1 operations
04 00 00 00 6e 65 78 74                         # operation 'next'
02 00 00 00                                     # 2 connectors
00 00 00 00                                     # flags
06 00 00 00 68 69 64 64 65 6e                   # connector 'hidden'
02 00 00 00                                     # 2 links
01 00 00 00 68                                  # link 'h'
02 00 00 00 68 32                               # link 'h2'
00 00 00 00                                     # flags
07 00 00 00 63 6f 6e 74 72 6f 6c                # connector 'control'
00 00 00 00                                     # 0 links
01 00 00 00                                     # 1 blobs
00 00 00 00                                     # flags
05 00 00 00 6d 6f 64 65 6c                      # blob 'model'
04 00 00 00 6a 73 6f 6e                         # type 'json'
01 00 00 00                                     # 1 attributes
04 00 00 00 6c 61 6e 67                         # attribute 'lang'
02 00 00 00 65 6e                               # value 'en'
02 00 00 00 00 00 00 00                         # 2 bytes of data
7b 7d                                           # data
"""

FILES = {
    "empty_3": EMPTY_3,
    "empty_6": EMPTY_6,
    "classifier_3": CLASSIFIER_3,
    "classifier_5": CLASSIFIER_5,
    "references_3": REFERENCES_3,
    "blobs_4": BLOBS_4,
    "tensorflow_4": TENSORFLOW_4,
    "unordered_4": UNORDERED_4,
    "flags_5": FLAGS_5,
    "attributes_6": ATTRIBUTES_6,
    "types_6": TYPES_6,
    "scalars_6": SCALARS_6,
    "recurrent_5": RECURRENT_5,
}


def as_bytes(annotated: str) -> bytes:
    """The bytes of a file from its annotated form."""
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in annotated.splitlines()))
