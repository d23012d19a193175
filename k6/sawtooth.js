import { scenario } from './lib/scenario.js';

const run = scenario(open(__ENV.SHAPE || './sawtooth.json'));

export const options = run.options;
export const { setup, load, act, teardown } = run;
