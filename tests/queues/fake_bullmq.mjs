// Jobs whose lock runs out unless somebody extends it, with the one token that holds it.
export class Job {
  constructor(id, data) {
    this.id = id;
    this.data = data;
    this.extended = [];
    this.state = "waiting";
    this.beats = [];
  }
  async extendLock(token, ms) {
    if (token !== this.token) throw new Error("the lock is somebody else's");
    this.extended.push(ms);
    this.beats.splice(0).forEach((told) => told());
    if (this.failing) throw new Error(this.failing);
  }
  /// Resolves with the next extension.
  beat() {
    return new Promise((told) => this.beats.push(told));
  }
  async moveToCompleted(value, token) {
    if (token !== this.token) throw new Error("the lock is somebody else's");
    this.state = "completed";
    this.value = value;
  }
  async moveToFailed(error, token) {
    if (token !== this.token) throw new Error("the lock is somebody else's");
    this.state = "failed";
    this.error = error;
  }
}

export class Worker {
  static waiting = [];
  static made = [];
  constructor(queue, processor, options) {
    Object.assign(this, { queue, processor, options, closed: false, listeners: {} });
    Worker.made.push(this);
  }
  on(event, listener) {
    this.listeners[event] = listener;
  }
  async getNextJob(token) {
    const job = Worker.waiting.shift();
    if (job) Object.assign(job, { token, state: "active" });
    return job;
  }
  async close() {
    this.closed = true;
  }
}
