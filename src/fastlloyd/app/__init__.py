"""Web app for one user of this machine: pages in the browser that lead to the same jobs as the
commands.

It reads in this process and spends in child processes, which are the command line itself.
"""
