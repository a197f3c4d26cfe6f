"""`python -m minikv` is the command `minikv`."""

import sys

from minikv.cli import main

sys.exit(main())
