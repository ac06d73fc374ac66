"""``python -m trainyard`` is the command ``trainyard``."""

import sys

from trainyard.cli import main

sys.exit(main())
