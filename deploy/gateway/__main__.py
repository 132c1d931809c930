"""Writes Envoy's bootstrap to standard output: python -m deploy.gateway --help."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from deploy.gateway.bootstrap import Setup, bootstrap


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.gateway", description=__doc__)
    parser.add_argument("--listen", type=_address, default=("127.0.0.1", 8080), metavar="IP:PORT")
    parser.add_argument("--portal", type=_address, required=True, metavar="HOST:PORT", help="web, inside, plain HTTP")
    parser.add_argument("--dir", type=Path, required=True, help="the portal's MAAS_GATEWAY_DIR")
    parser.add_argument("--admin", type=Path, required=True, metavar="SOCKET", help="for Envoy's own administration")
    parser.add_argument("--secret-file", type=Path, required=True, help="the portal's MAAS_GATEWAY_SECRET")
    options = parser.parse_args(argv)
    secret = options.secret_file.read_text().strip()
    setup = Setup(options.listen, options.portal, options.dir.absolute(), options.admin.absolute(), secret)
    json.dump(bootstrap(setup), sys.stdout, indent=1)
    return 0


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
