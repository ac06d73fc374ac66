"""Django's admin, in Unfold's clothes, for staff: what people made may be edited; what machines wrote may be read.

Rules live in runs.actions; here is nothing but which columns are shown.
"""

from runs.admin import clusters, people, tables, training
from runs.admin.drawing import draw_once

draw_once()

__all__ = ["clusters", "people", "tables", "training"]
