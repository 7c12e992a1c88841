"""`python -m farside` is the `farside` command."""

import os
import sys

from farside._local import command

os.execv(command(), ["farside", *sys.argv[1:]])
