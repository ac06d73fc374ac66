"""Why a job is pending, in words, by Slurm's own word for it."""

from __future__ import annotations

REASONS = {
    "None": "Slurm has not looked at it yet",
    "Priority": "other jobs are ahead of it in Slurm's queue",
    "Resources": "it is next, and waits for machines to be free",
    "BeginTime": "the time at which it may begin has not come",
    "Dependency": "it waits for another job",
    "JobHeldUser": "somebody holds it (`scontrol release` lets it go)",
    "JobHeldAdmin": "an administrator of Slurm holds it",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more machines than its partition gives to one job",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "PartitionConfig": "its partition cannot give what it asks for",
    "ReqNodeNotAvail": "machines that it asks for are down, drained or reserved",
    "BadConstraints": "no machine can give what it asks for",
    "NodeDown": "a machine that it needs is down",
    "Licenses": "it waits for a licence",
    "Reservation": "it waits for its reservation to begin",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AssociationJobLimit": "its account has as many jobs as it may have",
    "AssociationResourceLimit": "its account uses as much as it may use",
    "AssocMaxJobsLimit": "its account has as many jobs as it may have",
    "QOSResourceLimit": "its QOS uses as much as it may use",
    "QOSJobLimit": "its QOS has as many jobs as it may have",
    "QOSNotAllowed": "its partition does not take its QOS",
    "JobLaunchFailure": "its machines could not start it",
    "Cleaning": "what an earlier try left is being removed",
    "Prolog": "its machines are being prepared",
    "NonZeroExitCode": "it ended with an error",
    "SystemFailure": "Slurm itself failed",
}
FAMILIES = {
    "QOSMax": "it asks for more than its QOS allows, or its QOS uses all that it may",
    "QOSGrp": "its QOS uses as much as it may use",
    "QOSMin": "it asks for less than its QOS demands",
    "AssocMax": "it asks for more than its account allows, or the account uses all that it may",
    "AssocGrp": "its account uses as much as it may use",
    "Reservation": "its reservation is not usable",
    "JobHeld": "it is held",
    "ReqNodeNotAvail": "machines that it asks for are down, drained or reserved",
}


def sentence_of(reason: str) -> str:
    """Return the sentence of a reason, which may go on behind a comma; Slurm's word stands in brackets."""
    word = reason.partition(",")[0].strip()
    words = REASONS.get(word) or next((text for start, text in FAMILIES.items() if word.startswith(start)), "")
    if not word:
        return "it is pending."
    return f"{words} ({word})." if words else f"Slurm says {word}."
