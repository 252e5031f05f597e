"""The exporter's YAML file, validated into frozen records; errors name file, line, key and the cure."""
