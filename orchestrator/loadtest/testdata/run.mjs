// Runs a scenario's script as k6 would load it, and prints what it built and did: one JSON object.
// Usage: node run.mjs SCRIPT ENVIRONMENT-AS-JSON; the k6 modules are the stand-ins beside this file.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { calls } from 'k6/stand-in';

const [script, environment] = process.argv.slice(2);
globalThis.__ENV = JSON.parse(environment);
globalThis.open = (path) => readFileSync(resolve(dirname(script), path), 'utf8');
const loaded = await import(pathToFileURL(script).href);

const run = (name, state, env) => {
  Object.assign(calls.scenario, state);
  Object.assign(globalThis.__ENV, env);
  calls.log.length = 0;
  loaded[name]();
  return [...calls.log];
};
const out = { options: loaded.options, exports: Object.keys(loaded).sort(), setup: run('setup'), teardown: run('teardown') };
out.warm = [0, 1].flatMap((n) => run('load', { name: 'warm', iterationInTest: n }));
out.main = [0, 1, 2].flatMap((n) => run('load', { name: 'main', iterationInTest: n }));
out.act = Object.entries(loaded.options.scenarios).filter(([, s]) => s.exec === 'act').flatMap(([name, s]) => run('act', { name }, s.env));
console.log(JSON.stringify(out));
