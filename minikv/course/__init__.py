"""What teaches: exercises and their judge, pictures, films, the player and the playground (extra `course`)."""
