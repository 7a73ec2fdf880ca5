// Scores pages by Lighthouse: accessibility and best practices, of 100, and what fails. In a folder with its package installed
// (npm install lighthouse): node lighthouse.mjs http://127.0.0.1:7474 / /runs /mistakes
import lighthouse from 'lighthouse';
import * as chromeLauncher from 'chrome-launcher';

const [address, ...paths] = process.argv.slice(2);
const chrome = await chromeLauncher.launch({chromePath: process.env.CHROME_PATH ?? '/usr/bin/chromium', chromeFlags: ['--headless', '--no-sandbox', '--disable-gpu']});
for (const path of paths) {
  const {lhr} = await lighthouse(address + path, {port: chrome.port, output: 'json', logLevel: 'error', onlyCategories: ['accessibility', 'best-practices']});
  const scores = Object.values(lhr.categories).map((c) => `${c.title} ${Math.round(100 * c.score)}`);
  const failed = Object.values(lhr.audits).filter((a) => a.scoreDisplayMode === 'binary' && a.score === 0).map((a) => a.id);
  console.log(path, ...scores, ...failed);
}
await chrome.kill();
