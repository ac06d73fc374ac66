"""Rows about people's rights to their data, and about what projects store."""

from runs.models.privacy.people import Consent, ErasedPerson, PersonalExport, RemovedData, StoredData

__all__ = ["Consent", "ErasedPerson", "PersonalExport", "RemovedData", "StoredData"]
