"""Settings and fixtures that the tests of the lab share with those of the product."""

pytest_plugins = ("all_tests", "command_line")
