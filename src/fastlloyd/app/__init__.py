"""Web app for one user of this machine: pages in the browser that lead to the same jobs as the
commands.

The app reads files in this process. Runs, which spend epsilon, are child processes that run the
command line.
"""
