"""Static files: our own under hashed names, and of each npm package only what a page asks for."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import FileSystemFinder
from django.core.files.storage import FileSystemStorage
from whitenoise.storage import CompressedManifestStaticFilesStorage


def _without_source_maps(patterns: Any) -> Any:
    """Vendor files name source maps that we do not serve; the name stays a comment, nobody looks for the file."""

    def keeps(pattern: Any) -> bool:
        return "sourceMappingURL" not in str(pattern)

    return tuple((files, tuple(filter(keeps, each))) for files, each in patterns)


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hashed names, with the imports inside our ES modules rewritten to match."""

    support_js_module_import_aggregation = True
    patterns = _without_source_maps(CompressedManifestStaticFilesStorage.patterns)


class VendorFinder(FileSystemFinder):
    """Finds `vendor/<package>/…` in npm packages, restricted to the files settings.VENDOR_FILES names by pattern."""

    def __init__(self, app_names: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(app_names, *args, **kwargs)
        self.locations, self.storages = [], {}
        for prefix, (folder, _patterns) in settings.VENDOR_FILES.items():
            storage = FileSystemStorage(location=folder)
            storage.prefix = prefix  # where Django's finders keep it too
            self.locations.append((prefix, str(folder)))
            self.storages[str(folder)] = storage

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def list(self, ignore_patterns: Any) -> Iterator[Any]:
        for path, storage in super().list(ignore_patterns):
            patterns = settings.VENDOR_FILES[storage.prefix][1]
            if any(fnmatch(path, pattern) for pattern in patterns):
                yield path, storage
