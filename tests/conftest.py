"""What all tests share is in tests/support: settings, and the fixtures `here`, `fastlloyd`,
`address`, `site`.
"""

pytest_plugins = (
    "all_tests",
    "alone",
    "browsers",
    "command_line",
    "dask_cluster",
    "network_site",
    "sharing",
)
