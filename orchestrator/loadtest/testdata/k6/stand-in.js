// Stand-ins for the k6 modules: they record what a script does.
export const calls = { log: [], scenario: { name: '', iterationInTest: 0, startTime: 1700000000000 } };
export const sleep = (seconds) => calls.log.push({ sleep: seconds });
export class Gauge {
  constructor(name) { this.name = name; }
  add(value, tags) { calls.log.push({ gauge: this.name, value, tags }); }
}
const request = (method) => (url, ...rest) => {
  const params = rest.pop();
  calls.log.push({ method, url, body: rest[0], params });
  return { status: url.includes('missing') ? 404 : 200 };
};
export default { get: request('GET'), put: request('PUT'), scenario: calls.scenario };
