"""Pages of models, and the two doors for pods."""

from apps.catalog.views.acts import again, delete, edit, file, stage
from apps.catalog.views.market import models
from apps.catalog.views.model import model

__all__ = ["again", "delete", "edit", "file", "model", "models", "stage"]
