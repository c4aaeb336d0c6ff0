"""One public function per file."""
