"""Settings all tests share."""

from hypothesis import settings

# A shared machine makes single examples slow at random; a hang is caught by the run's own limit.
settings.register_profile("fastlloyd", deadline=None, print_blob=True)
settings.load_profile("fastlloyd")
