"""The console: what the pages of the cluster and the scheduler show, and the files of the web page itself."""
