"""`python -m minikv` is the command `minikv`."""

import sys

from minikv.cli import main

if __name__ == "__main__":  # a process that is started on this machine imports this file, too
    sys.exit(main())
