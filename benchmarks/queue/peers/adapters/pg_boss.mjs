// pg-boss: jobs in PostgreSQL, fetched and completed in batches.
//
// Its API reference (github.com/timgit/pg-boss, docs): work() with a batchSize, of 1,000 jobs by each of four workers in
// the process, polling twice a second, which is as often as it may; insert() for many jobs; no scheduler.

export class Adapter {
  remaining = "SELECT count(*) AS n FROM pgboss.job WHERE name = 'bench' AND state < 'completed'"

  constructor (need, url, handle, atOnce) {
    this.boss = new (need('pg-boss'))({ connectionString: url, schedule: false, max: 10 })
    this.boss.on('error', error => console.error(error))
    this.handle = handle
    this.workers = atOnce(4)
  }

  async open () {
    await this.boss.start()
  }

  async setUp () {
    await this.boss.createQueue('bench')
  }

  async enqueueOne (payload) {
    await this.boss.send('bench', payload)
  }

  async enqueueBulk (payloads) {
    await this.boss.insert(payloads.map(data => ({ name: 'bench', data })))
  }

  async work () {
    const handle = async jobs => {
      for (const job of jobs) await this.handle(job.data)
    }
    for (let worker = 0; worker < this.workers; worker++) {
      await this.boss.work('bench', { batchSize: 1000, pollingIntervalSeconds: 0.5 }, handle)
    }
    await new Promise(() => {})
  }
}
