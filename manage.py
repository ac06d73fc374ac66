#!/usr/bin/env python
"""Django's command line for this site; `trainyard manage` is the same."""

from dashboard.manage import main

if __name__ == "__main__":
    main()
