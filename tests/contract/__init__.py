"""One suite over each adapter."""

import pytest

pytest.register_assert_rewrite(
    "tests.contract.frontier_calls", "tests.contract.frontier_checks", "tests.contract.frontier_model"
)
