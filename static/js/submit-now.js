// A form the browser should send on at once; without this script its button does the same.
document.querySelector("form[data-submit-now]")?.submit();
