"""`python -m actors.launch.front FOLDER`: prepares a machine of a cluster (installation.py)."""

import sys

from actors.launch.front.installation import main

sys.exit(main(sys.argv[1:]))
