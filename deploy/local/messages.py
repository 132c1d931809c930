"""Are the translations whole? `python -m deploy.local.messages`; exit code 1 and a list where they are not.

Every message of every catalogue must be translated, none fuzzy, with the placeholders of its source. Where GNU gettext
is installed the sources are read as well: a message in them must be in each catalogue.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from babel.messages.catalog import Message
from babel.messages.pofile import read_po

from deploy.local.stack import TREE

SOURCES = ("apps", "maasportal", "templates", "locale")
DJANGO_ADMIN = (sys.executable, "-m", "django")
EXTRACTIONS = (("django", ("--extension", "html,txt,py")), ("djangojs", ()))


def messages(catalogue: Path) -> dict[str, Message]:
    """By source text, and context where there is one."""
    with catalogue.open("rb") as file:
        return {f"{each.context or ''}\4{_source(each)}": each for each in read_po(file) if each.id}


def flaws(catalogue: Path) -> list[str]:
    found = []
    for each in messages(catalogue).values():
        texts = each.string if isinstance(each.string, tuple | list) else (each.string,)
        if each.fuzzy:
            found.append(f"fuzzy: {_source(each)}")
        elif not all(texts):
            found.append(f"not translated: {_source(each)}")
        else:
            found += [f"{error}: {_source(each)}" for error in each.check()]
    return [f"{catalogue.relative_to(TREE)}: {flaw}" for flaw in found]


def missing(catalogues: list[Path]) -> list[str]:
    """What the sources say and a catalogue does not know. Raises subprocess.CalledProcessError."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in filter(lambda each: (TREE / each).exists(), SOURCES):
            shutil.copytree(TREE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for domain, options in EXTRACTIONS:
            command = [*DJANGO_ADMIN, "makemessages", "--all", "--domain", domain, "--no-location", *options]
            subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True)
        for catalogue in catalogues:
            now = messages(copy / catalogue.relative_to(TREE))
            new = now.keys() - messages(catalogue).keys()
            found += [f"{catalogue.relative_to(TREE)}: missing: {_source(now[key])}" for key in sorted(new)]
    return found


def _source(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def main() -> int:
    catalogues = sorted(TREE.glob("locale/*/LC_MESSAGES/*.po"))
    found = [flaw for catalogue in catalogues for flaw in flaws(catalogue)]
    if shutil.which("xgettext") and catalogues:
        found += missing(catalogues)
    print("\n".join(found) or f"{len(catalogues)} catalogues, all whole")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
