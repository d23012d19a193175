import { scenario } from './lib/scenario.js';

const run = scenario(open(__ENV.SHAPE || './burst.json'));

export const options = run.options;
export const { setup, load, act, teardown } = run;
