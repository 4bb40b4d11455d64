"""Settings and fixtures that tests of the lab share with tests of the product."""

pytest_plugins = ("all_tests", "command_line")
