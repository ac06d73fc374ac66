"""Specs of runs: the only place that knows a valid one. The form, REST, the CLI and the node all ask here.

``parse_spec(document)`` gives a Spec or raises SpecError, which names every field that is wrong.
"""

from trainyard.spec.document import load_spec_file, merge
from trainyard.spec.elastic import range_sentence, usable_nodes
from trainyard.spec.fits import check_fits, check_room
from trainyard.spec.form import FieldInfo, fields_of, form_fields
from trainyard.spec.models import KINDS, CommunicationSpec, RecipeSpec, ScriptSpec, Spec
from trainyard.spec.parse import json_schema, parse_spec, read_spec
from trainyard.spec.problems import Problem, SpecError
from trainyard.spec.sections.tasks import is_own_code
