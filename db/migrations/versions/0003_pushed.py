"""What a branch was last pushed as; who owns a batch is told by the lease alone."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("batches", sa.Column("pushed_sha", sa.Text()))
    op.execute(
        "UPDATE batches SET pushed_sha = head_sha WHERE status IN ('pushed', 'opened', 'merged', 'folded', 'closed')"
    )
    op.drop_column("batches", "owner")
    op.drop_column("batches", "lease_expires_at")
