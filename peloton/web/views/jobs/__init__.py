"""The pages of jobs: the list, a job, its forms, versions and workflows."""
