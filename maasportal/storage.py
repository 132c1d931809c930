"""Static files under hashed names, with the imports inside our ES modules rewritten to match."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):
    support_js_module_import_aggregation = True
    # Vendor files name source maps that we do not serve.
    manifest_strict = False
