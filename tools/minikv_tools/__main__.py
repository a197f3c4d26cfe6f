"""`python -m minikv_tools` is `minikv-tools`."""

from minikv_tools.cli import main

if __name__ == "__main__":  # a process that is started on this machine imports this file, too
    main()
