for (const film of document.querySelectorAll(".minikv-film")) {
  const data = film.querySelector("script"), stage = film.querySelector(".minikv-film-stage");
  const { index, poster } = data.dataset;
  const values = { reel: JSON.parse(data.textContent), index: +index, clicked: -1, poster: poster === undefined ? null : +poster };
  const model = { get: (name) => values[name], set: (name, value) => { values[name] = value; }, on() {}, off() {}, save_changes() {} };
  stage.replaceChildren();
  render({ el: stage, model });
}
