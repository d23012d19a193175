package main

import (
	"encoding/json"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/joho/godotenv"
	"github.com/stretchr/testify/require"
)

// compose is what the test reads of docker-compose.yml.
type compose struct {
	Services map[string]service
	Volumes  map[string]any
	Secrets  map[string]any
}

type service struct {
	Build       string
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Secrets     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
}

// foreignPorts are the ports of the services that are not ours.
var foreignPorts = map[string][]string{"postgres": {"5432"}, "prometheus": {"9090"}, "grafana": {"3000"}}

// listenFlags are the flags of ours that open a port.
var listenFlags = []string{"--listen", "--admin", "--web"}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	readYAML(t, "docker-compose.yml", &c)
	require.NotEmpty(t, c.Services)
	return c
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), name)
}

// listens is every address that a service of ours opens, as its command says.
func (s service) listens() (addresses []string) {
	for _, arg := range s.Command {
		if flag, value, ok := strings.Cut(arg, "="); ok && slices.Contains(listenFlags, flag) {
			addresses = append(addresses, strings.Split(value, ",")...)
		}
	}
	return addresses
}

func (c compose) ports(name string) (ports []string) {
	for _, address := range c.Services[name].listens() {
		_, port, _ := net.SplitHostPort(address)
		ports = append(ports, port)
	}
	return append(ports, foreignPorts[name]...)
}

// parse reads a command as the binary itself would, without running it. It returns the environment variables
// that the command takes.
func parse(t *testing.T, args []string) (environment []string) {
	t.Helper()
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	require.NoError(t, err)
	k, err := parser.Parse(args)
	require.NoError(t, err, "retune %s", strings.Join(args, " "))
	for _, f := range k.Selected().Flags {
		environment = append(environment, f.Envs...)
	}
	return environment
}

func TestComposeCommandsAreTheBinarysOwn(t *testing.T) {
	roles := []string{}
	for name, s := range readCompose(t).Services {
		if s.Build == "" {
			require.Contains(t, foreignPorts, name, "a service of ours is built, others have their ports listed")
			continue
		}
		require.NotEmpty(t, s.Command, name)
		roles = append(roles, s.Command[0])
		parse(t, s.Healthcheck.Test[2:])
		environment := parse(t, s.Command)
		for key := range s.Environment {
			require.Contains(t, environment, key, "%s is handed a variable that it does not read", name)
		}
	}
	require.ElementsMatch(t, []string{"proxy", "backends", "serve"}, roles)
}

func TestComposePublishesOnLoopbackWhatListens(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		for _, p := range s.Ports {
			parts := strings.Split(p, ":")
			require.Len(t, parts, 3, "%s publishes %s: address:port:port", name, p)
			require.Equal(t, "127.0.0.1", parts[0], "%s publishes %s to the network", name, p)
			require.Contains(t, c.ports(name), parts[2], "%s publishes a port on which nothing listens", name)
		}
		if s.Build == "" {
			continue
		}
		require.NotEmpty(t, s.listens(), name)
		for _, a := range s.listens() {
			require.True(t, strings.HasPrefix(a, "0.0.0.0:"), "%s listens on %s, which no other container reaches", name, a)
		}
	}
}

func TestComposeChecksHealthBeforeItGoesOn(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		require.NotEmpty(t, s.Healthcheck.Test, "%s has no health check", name)
		if s.Build != "" {
			require.Equal(t, []string{"CMD", "retune", "health"}, s.Healthcheck.Test[:3], name)
		}
		for _, arg := range s.Healthcheck.Test {
			if u, err := url.Parse(arg); err == nil && u.Scheme == "http" {
				require.Contains(t, c.ports(name), u.Port(), "%s is asked for health where nothing listens", name)
			}
		}
		for on, d := range s.DependsOn {
			require.Contains(t, c.Services, on, name)
			require.Equal(t, "service_healthy", d.Condition, "%s waits for %s", name, on)
		}
	}
}

// Every http:// or postgres:// address in a command or variable names a service and a port that it opens, and
// the service is waited for.
func TestComposeServicesReachEachOther(t *testing.T) {
	c := readCompose(t)
	address := regexp.MustCompile(`(?:http://|@)([a-z]+):(\d+)`)
	seen := 0
	for name, s := range c.Services {
		text := strings.Join(s.Command, " ")
		for _, value := range s.Environment {
			text += " " + value
		}
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			seen++
			require.Contains(t, c.Services, m[1], name)
			require.Contains(t, c.ports(m[1]), m[2], "%s reaches for %s", name, m[0])
		}
	}
	require.GreaterOrEqual(t, seen, 11)
}

func TestComposeKeepsWhatMustLast(t *testing.T) {
	c := readCompose(t)
	used := []string{}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, "./") {
				_, err := os.Stat(filepath.Join(root, source))
				require.NoError(t, err, name)
				continue
			}
			require.Contains(t, c.Volumes, source, name)
			used = append(used, source)
		}
		for _, secret := range s.Secrets {
			require.Contains(t, c.Secrets, secret, name)
		}
	}
	for v := range c.Volumes {
		require.Contains(t, used, v, "nothing uses this volume")
	}
}

// Compose stops with the sentence after :? rather than start a role that the network could command.
func TestComposeDemandsItsSecrets(t *testing.T) {
	example, err := godotenv.Read(filepath.Join(root, ".env.example"))
	require.NoError(t, err)
	variable := regexp.MustCompile(`\$\{([A-Z_]+)(:[?-])?([^}]*)`)
	c := readCompose(t)
	handedOn := map[string]bool{}
	for name, s := range c.Services {
		for key, value := range s.Environment {
			for _, m := range variable.FindAllStringSubmatch(value, -1) {
				handedOn[m[1]] = true
				require.Contains(t, example, m[1], "%s: %s", name, key)
				switch {
				case strings.HasPrefix(m[1], "RETUNE_MAX_"):
					require.Equal(t, ":-"+example[m[1]], m[2]+m[3], "%s: %s is the example's", name, key)
				case !strings.HasPrefix(m[1], "OPENAI_"):
					require.Equal(t, ":?", m[2], "%s: %s is a secret and has no default", name, key)
				}
			}
		}
	}
	for variable := range example {
		require.True(t, handedOn[variable], "%s of .env.example does nothing under Compose", variable)
	}
	require.Contains(t, c.Services["proxy"].Environment, "RETUNE_ADMIN_TOKEN")
	require.Contains(t, c.Services["orchestrator"].Environment, "RETUNE_ADMIN_TOKEN")
	require.Contains(t, c.Services["orchestrator"].Environment, "RETUNE_AUTH_TOKEN")
}

func TestPrometheusScrapesWhatListens(t *testing.T) {
	c := readCompose(t)
	var config struct {
		Jobs []struct {
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "deploy/prometheus.yml", &config)
	require.NotEmpty(t, config.Jobs)
	for _, job := range config.Jobs {
		secret := strings.TrimPrefix(job.Authorization.File, "/run/secrets/")
		require.Contains(t, c.Services["prometheus"].Secrets, secret)
		for _, s := range job.Static {
			for _, target := range s.Targets {
				host, port, err := net.SplitHostPort(target)
				require.NoError(t, err)
				require.Contains(t, c.ports(host), port, target)
			}
		}
	}
}

// dashboardMetrics are the metric names that the dashboard's queries use.
func dashboardMetrics(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/dashboards/retune.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	names := regexp.MustCompile(`retune_[a-z_]+`).FindAllString(string(text), -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// Each metric that the dashboard shows stands in the source as a whole name, a prefix apart: no panel stays empty
// because somebody renamed what it shows.
func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	source := ""
	eachPackage(t, func(p goPackage) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			require.NoError(t, err)
			source += string(text)
		}
	})
	for _, name := range dashboardMetrics(t) {
		name = strings.TrimSuffix(name, "_bucket")
		short := strings.TrimPrefix(strings.TrimPrefix(name, "retune_proxy_"), "retune_")
		if !strings.Contains(source, `"`+name+`"`) && !strings.Contains(source, `"`+short+`"`) {
			t.Errorf("the dashboard shows %s, which nothing counts", name)
		}
	}
}

func TestDockerComposeItselfAgrees(t *testing.T) {
	if exec.Command("docker", "compose", "version").Run() != nil {
		t.Skip("no docker compose plugin here")
	}
	cmd := exec.Command("docker", "compose", "config", "--quiet")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "RETUNE_ADMIN_TOKEN=x", "RETUNE_AUTH_TOKEN=x", "POSTGRES_PASSWORD=x")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
