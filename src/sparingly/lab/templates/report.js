// Filter, search and unfold. Without this script the report shows every claim, and everything else works.
(() => {
  const byId = (id) => document.getElementById(id);
  const form = document.querySelector('.filter');
  const claims = [...document.querySelectorAll('details.claim')];
  const texts = claims.map((claim) => claim.textContent.toLowerCase());
  const groups = [...document.querySelectorAll('section.group')];

  function filter() {
    const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
    const chapter = byId('chapter').value;
    const verdict = byId('verdict').value;
    claims.forEach((claim, i) => {
      claim.hidden = Boolean((chapter && claim.dataset.chapter !== chapter)
        || (verdict && claim.dataset.verdict !== verdict)
        || !words.every((word) => texts[i].includes(word)));
    });
    groups.forEach((group) => { group.hidden = !group.querySelector('details.claim:not([hidden])'); });
    byId('found').textContent = `${claims.filter((claim) => !claim.hidden).length} of ${claims.length}`;
  }

  function unfold() {
    const open = byId('unfold').getAttribute('aria-pressed') !== 'true';
    claims.forEach((claim) => { claim.open = open; });
    byId('unfold').setAttribute('aria-pressed', String(open));
    byId('unfold').textContent = open ? 'Fold all' : 'Unfold all';
  }

  // A link to a claim or a chapter that the filter hides shows everything again.
  function reveal() {
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest('[hidden]')) { form.reset(); filter(); }
    const claim = target.closest('details.claim');
    if (claim) { claim.open = true; target.scrollIntoView(); }
  }

  form.hidden = false;
  form.addEventListener('input', filter);
  form.addEventListener('submit', (event) => event.preventDefault());
  byId('unfold').addEventListener('click', unfold);
  addEventListener('hashchange', reveal);
  filter();
  reveal();
})();
