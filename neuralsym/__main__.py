"""`python -m neuralsym`: the command line, where the script is not on the path."""

from __future__ import annotations

import sys

from neuralsym.cli import main

if __name__ == "__main__":
    sys.exit(main())
