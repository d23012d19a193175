package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/joho/godotenv"
)

// loadEnvFile reads RETUNE_ENV_FILE, or .env where it is, into the environment before anything asks for a
// key. What is set already stays.
func loadEnvFile() error {
	name, named := os.LookupEnv("RETUNE_ENV_FILE")
	if !named {
		name = ".env"
	}
	err := godotenv.Load(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the environment file %s: %w", name, err)
	}
	return nil
}
