// graphile-worker: jobs in PostgreSQL, the fastest complete worker on it that we know.
//
// The settings are those of its own benchmark (worker.graphile.org, Performance): 24 jobs at once, a local queue of 500,
// and completions in batches without delay. In bulk: addJobs.

export class Adapter {
  remaining = 'SELECT count(*) AS n FROM graphile_worker._private_jobs'

  constructor (need, url, handle, atOnce) {
    this.lib = need('graphile-worker')
    this.url = url
    this.handle = handle
    this.jobs = atOnce(24)
    this.logger = new this.lib.Logger(() => () => {})
  }

  async open () {
    this.utils = await this.lib.makeWorkerUtils({ connectionString: this.url, logger: this.logger })
  }

  async setUp () {
    await this.utils.migrate()
  }

  async enqueueOne (payload) {
    await this.utils.addJob('noop', payload)
  }

  async enqueueBulk (payloads) {
    await this.utils.addJobs(payloads.map(payload => ({ identifier: 'noop', payload })))
  }

  async work () {
    const runner = await this.lib.run({
      preset: {
        worker: {
          connectionString: this.url,
          concurrentJobs: this.jobs,
          maxPoolSize: this.jobs + 1,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger: this.logger
        }
      },
      taskList: { noop: this.handle }
    })
    await runner.promise
  }
}
