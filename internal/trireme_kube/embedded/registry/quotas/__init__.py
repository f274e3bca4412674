"""Resource quotas: what objects use of them, and which writes they refuse."""
