"""`python -m sidecar`: the `sidecar` command, for zip archives and editable installs."""

import sys

from sidecar.launch import main

if __name__ == "__main__":
    sys.exit(main())
