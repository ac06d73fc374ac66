"""The product's rows. Import models from here; each file below is one family."""

from runs.models.access import IdempotencyKey, SharedLink, SignInLink, Token
from runs.models.attempts import Allocation, Attempt, Event, HeldSlot, Placement
from runs.models.clusters import Cluster, JoinToken, Node, Preflight
from runs.models.data import Dataset
from runs.models.identity import BrowserSession, Identity, ProvidedGroup, ProviderSession, ProvisioningToken
from runs.models.jobs import CodeBundle, Experiment, GitKey, Job, RunCode, bundle_of
from runs.models.notices import Following, NewEvent, Notice, NoticeRule
from runs.models.people import (
    ClusterRole,
    CustomRole,
    GroupRole,
    Invitation,
    Membership,
    Project,
    Role,
    SavedView,
    User,
    Workspace,
)
from runs.models.privacy import Consent, ErasedPerson, PersonalExport, RemovedData, StoredData
from runs.models.reports import Report, ReportComment, ReportVersion
from runs.models.runs import Dependency, GoneRun, Run, RunNumber, RunTime, StartTerms
from runs.models.security import AuditEntry, AuditHead, Secret, SecretUse, SecretVersion, StorageKey
from runs.models.sweeps import Sweep, Trial, TrialReport, TrialRun
