import sys

from workers.node.main import main

if __name__ == "__main__":
    sys.exit(main())
