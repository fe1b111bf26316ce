"""ImageNet's statistics: the mean and the deviation of red, green and blue, of 0 to 1."""

import numpy as np

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
