"""What was delivered lately is found without reading all that ever was."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.create_index("otel_drift_delivery_settled", "otel_drift_delivery", ["sink", "settled", "state"], unique=False)
