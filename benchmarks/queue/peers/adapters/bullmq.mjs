// BullMQ on PostgreSQL, by its package for Node.js.
//
// docs.bullmq.io, PostgreSQL backend: 32 jobs at once, the most of its own numbers, with as many connections in the pool;
// finished jobs removed. In bulk: addBulk.

export class Adapter {
  remaining = "SELECT count(*) AS n FROM bullmq.job WHERE state NOT IN ('completed', 'failed')"

  constructor (need, url, handle, atOnce) {
    this.lib = need('bullmq')
    this.Pool = need('pg').Pool
    this.url = url
    this.handle = handle
    this.jobs = atOnce(32)
  }

  options () {
    return { connection: { connectionString: this.url, max: this.jobs }, defaultJobOptions: { removeOnComplete: true } }
  }

  async open () {
    const pool = new this.Pool({ connectionString: this.url })
    const client = await pool.connect()
    await this.lib.runMigrations(client)
    client.release()
    await pool.end()
    this.queue = new this.lib.Queue('benchmarks', this.options(), this.lib.createPostgresBackend)
    this.queue.on('error', error => console.error(error))
  }

  async setUp () {
    await this.queue.waitUntilReady()
  }

  async enqueueOne (payload) {
    await this.queue.add('noop', payload)
  }

  async enqueueBulk (payloads) {
    await this.queue.addBulk(payloads.map(data => ({ name: 'noop', data })))
  }

  async work () {
    const options = { ...this.options(), concurrency: this.jobs }
    const handle = async job => this.handle(job.data)
    const worker = new this.lib.Worker('benchmarks', handle, options, this.lib.createPostgresBackend)
    worker.on('error', error => console.error(error))
    await new Promise(() => {})
  }
}
