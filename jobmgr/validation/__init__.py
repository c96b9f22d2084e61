"""What a job's config must be before it is stored (behaviour 2.2, 2.5).

Pure: config in, config or refusal out. Every refusal is `peloton.errors.InvalidArgument`: the field's path,
its value, what would be right. The first one found is told.
"""

from jobmgr.validation.job import (
    MAX_INSTANCES,
    check_job_id,
    check_pool,
    check_supported,
    validated,
)
from jobmgr.validation.update import validated_update

__all__ = [
    "MAX_INSTANCES",
    "check_job_id",
    "check_pool",
    "check_supported",
    "validated",
    "validated_update",
]
