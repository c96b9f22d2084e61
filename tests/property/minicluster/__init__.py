"""Rules of the minicluster over drawn inputs."""
