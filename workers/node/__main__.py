import sys

from workers.node import main

if __name__ == "__main__":
    sys.exit(main())
