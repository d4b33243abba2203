"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("base_branch", sa.Text()),
        sa.Column("base_sha", sa.Text()),
        sa.Column("head_sha", sa.Text()),
        sa.Column("merge_sha", sa.Text()),
        sa.Column("worktree_path", sa.Text()),
        sa.Column("pr_number", sa.Integer()),
        sa.Column("pr_url", sa.Text()),
        sa.Column("pr_status", sa.Text()),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("check_signature", sa.Text()),
        sa.Column("owner", sa.Text()),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True)),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_batches")),
    )
    op.create_table(
        "features",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("verify", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("refinement", sa.Text(), nullable=False),
        sa.Column("branch_name", sa.Text()),
        sa.Column("commit_sha", sa.Text()),
        sa.Column("pr_number", sa.Integer()),
        sa.Column("pr_url", sa.Text()),
        sa.Column("pr_status", sa.Text()),
        sa.Column("batch_key", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text()),
        sa.Column("question", sa.Text()),
        sa.Column("answer", sa.Text()),
        sa.Column("issue_number", sa.Integer()),
        sa.Column("last_tested_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["batch_key"], ["batches.key"], name=op.f("fk_features_batch_key")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_features")),
    )
    op.create_table(
        "dependencies",
        sa.Column("feature_id", sa.Integer(), nullable=False),
        sa.Column("depends_on_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["feature_id"], ["features.id"], name=op.f("fk_dependencies_feature_id")),
        sa.ForeignKeyConstraint(
            ["depends_on_id"], ["features.id"], name=op.f("fk_dependencies_depends_on_id")
        ),
        sa.PrimaryKeyConstraint("feature_id", "depends_on_id", name=op.f("pk_dependencies")),
    )
    op.create_table(
        "batch_features",
        sa.Column("batch_key", sa.Text(), nullable=False),
        sa.Column("feature_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["batch_key"], ["batches.key"], name=op.f("fk_batch_features_batch_key")),
        sa.ForeignKeyConstraint(["feature_id"], ["features.id"], name=op.f("fk_batch_features_feature_id")),
        sa.PrimaryKeyConstraint("batch_key", "feature_id", name=op.f("pk_batch_features")),
    )
    op.create_table(
        "batch_parents",
        sa.Column("batch_key", sa.Text(), nullable=False),
        sa.Column("parent_key", sa.Text(), nullable=False),
        sa.Column("tip", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["batch_key"], ["batches.key"], name=op.f("fk_batch_parents_batch_key")),
        sa.ForeignKeyConstraint(["parent_key"], ["batches.key"], name=op.f("fk_batch_parents_parent_key")),
        sa.PrimaryKeyConstraint("batch_key", "parent_key", name=op.f("pk_batch_parents")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("batch_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("feature_ids", sa.JSON(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["batch_key"], ["batches.key"], name=op.f("fk_attempts_batch_key")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("batch_key", sa.Text()),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    for table, column in (
        ("features", "batch_key"),
        ("dependencies", "depends_on_id"),
        ("batch_features", "feature_id"),
        ("attempts", "batch_key"),
        ("attempts", "build_id"),
        ("events", "batch_key"),
        ("events", "build_id"),
    ):
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])
