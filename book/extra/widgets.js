// Tell the loader of widgets where its modules are: beside this file, never on another host.
(function () {
  const here = new URL(".", document.currentScript.src).href;
  const manager = here + "html-manager/embed-amd";
  const paths = { anywidget: here + "anywidget/anywidget" };
  for (const name of ["base", "controls", "output", "base-manager", "html-manager"]) {
    paths["@jupyter-widgets/" + name] = manager;
  }
  for (const name of ["libembed-amd", "embed-amd"]) {
    paths["@jupyter-widgets/html-manager/dist/" + name] = manager;
  }
  window.requirejs.config({ paths });
  // The manager's schema validator notes a matter of its own style on every page.
  const warn = console.warn;
  console.warn = (...said) => {
    if (!String(said[0]).startsWith("strict mode: use allowUnionTypes")) warn(...said);
  };
  window.__jupyter_widgets_assets_path__ = here + "html-manager/";
})();
